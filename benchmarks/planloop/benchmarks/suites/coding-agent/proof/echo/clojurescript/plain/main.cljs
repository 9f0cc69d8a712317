(ns main
  (:require ["http" :as http]
            [clojure.string :as str]
            [reply :refer [reply]]))

(defn collect [request done]
  (let [chunks (atom [])]
    (.on request "data" #(swap! chunks conj %))
    (.on request "end" #(done (js/Buffer.concat (into-array @chunks))))))

(defn handle [request response]
  (collect request
           (fn [body]
             (let [path (first (str/split (.-url request) #"\?"))]
               (cond
                 (= path "/") (.end response "echo is up; POST to /echo")
                 (and (= path "/echo") (= (.-method request) "POST"))
                 (reply body (aget (.-headers request) "content-type")
                        (fn [body type]
                          (when type (.setHeader response "content-type" type))
                          (.end response body)))
                 :else (-> response (.writeHead 404) (.end "not found")))))))

(.listen (http/createServer handle) (js/Number js/process.env.PORT))
