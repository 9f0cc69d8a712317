(ns reply
  (:require [clojure.string :as str]))

(defn reply [body type]
  {:body (.getBytes (str/upper-case (String. ^bytes body))) :type type})
