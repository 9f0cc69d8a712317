(ns reply
  (:require [clojure.string :as str]))

(defn reply [body type]
  {:body (.getBytes (str/trim (String. ^bytes body))) :type type})
