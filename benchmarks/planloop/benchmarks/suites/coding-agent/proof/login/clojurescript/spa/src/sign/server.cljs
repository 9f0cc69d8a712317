(ns sign.server
  (:require ["fs" :as fs]
            ["http" :refer [createServer]]
            [clojure.string :as str]
            [sessions]
            [users]))

(def page (fs/readFileSync "public/index.html"))

(defn sid [request]
  (->> (str/split (or (.. request -headers -cookie) "") #"; ")
       (map #(str/split % #"="))
       (some (fn [[name value]] (when (= name "sid") value)))))

(defmulti api (fn [request _] (str (.-method request) " " (.-url request))))

(defmethod api "GET /api/me" [request _]
  (if-let [name (sessions/owner (sid request))]
    {:status 200 :json {:name name}}
    {:status 401 :json {:error "nobody"}}))

(defmethod api "POST /api/login" [_ {:keys [username password]}]
  (if-let [name (users/authenticated username password)]
    {:status 200 :json {:name name} :cookie (sessions/begin name)}
    {:status 401 :json {:error "refused"}}))

(defmethod api "POST /api/logout" [request _]
  (sessions/end (sid request))
  {:status 204 :cookie ""})

(defmethod api "GET /" [_ _]
  {:status 200 :page page})

(defmethod api :default [_ _]
  {:status 404 :json {:error "no such thing"}})

(defn answer! [response {:keys [status json page cookie]}]
  (when cookie (.setHeader response "set-cookie" (str "sid=" cookie "; Path=/; HttpOnly")))
  (.writeHead response status #js {"content-type" (if page "text/html" "application/json")})
  (.end response (cond page page json (js/JSON.stringify (clj->js json)) :else "")))

(defn -main []
  (.listen (createServer
             (fn [request response]
               (let [chunks #js []]
                 (.on request "data" #(.push chunks %))
                 (.on request "end"
                      (fn []
                        (let [body (.toString (js/Buffer.concat chunks))
                              given (try (js->clj (js/JSON.parse body) :keywordize-keys true) (catch :default _ {}))]
                          (answer! response (api request given))))))))
           (js/Number js/process.env.PORT)))
